-- SPDX-License-Identifier: MIT

-- | haskell-ring: threads of GHC's runtime in a ring, each with an MVar to the next. All
-- other primitives are made of MVars. Not linked with -threaded: a ring has work for one
-- processor, and the other runtime has no locks.
module Main (main) where

import Control.Concurrent
import Control.Monad (forM_, replicateM, replicateM_)
import GHC.Clock (getMonotonicTime)
import Numeric (showFFloat)
import Peer

threads :: Int
threads = 503

pass :: MVar () -> MVar Int -> Int -> MVar Int -> MVar Int -> IO ()
pass arrived end number own next = putMVar arrived () >> loop
  where
    loop = do
      token <- takeMVar own
      if token == 0
        then putMVar end number
        else do
          putMVar next $! token - 1
          loop

main :: IO ()
main = do
  passes <- argument "PASSES"
  arrived <- newEmptyMVar
  end <- newEmptyMVar
  boxes@(first : others) <- replicateM threads newEmptyMVar
  forM_ (zip3 [1 ..] boxes (others ++ [first])) $ \(number, own, next) ->
    forkIO (pass arrived end number own next)
  replicateM_ threads (takeMVar arrived)
  yield -- the last thread blocks now

  began <- getMonotonicTime
  putMVar first passes
  number <- takeMVar end
  ended <- getMonotonicTime

  putStrLn (showFFloat (Just 6) (ended - began) "")
  print number
