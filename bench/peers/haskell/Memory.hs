-- SPDX-License-Identifier: MIT

-- | haskell-memory: threads of GHC's runtime that block on one MVar, which gets a message
-- for each. So the memory is that of threads, not of MVars. The runtime's options are in
-- peer.mk. Stacks have 512 bytes at first instead of 1024, which is enough here (with 400
-- they overflow, into chunks of 32 KiB). The collector compacts in place: the source
-- memory of a copying collector would count as well.
module Main (main) where

import Control.Concurrent
import Control.Monad (replicateM_, when)
import Data.IORef
import Peer
import System.Mem (performMajorGC)

main :: IO ()
main = do
  threads <- argument "THREADS"
  needMemory threads
  resume <- newEmptyMVar
  arrived <- newIORef (0 :: Int)
  ended <- newIORef (0 :: Int)
  let count counter = atomicModifyIORef' counter (\n -> (n + 1, ()))
      wait = count arrived >> takeMVar resume >> count ended
      await counter = do
        n <- readIORef counter
        when (n < threads) (yield >> await counter)

  performMajorGC
  before <- resident
  replicateM_ threads (forkIO wait)
  await arrived
  yield -- the last thread blocks now
  performMajorGC
  bytes <- max 0 . subtract before <$> resident

  replicateM_ threads (putMVar resume ())
  await ended
  print (bytes `div` threads)
  readIORef ended >>= print
