-- SPDX-License-Identifier: MIT

-- | haskell-memory: threads of GHC's runtime that block on an MVar. One for all,
-- and one message for each: what is measured is the threads. Its options for the
-- runtime, in peer.mk: stacks of 512 bytes at first, which is enough here, instead
-- of 1024 (with 400 they overflow, into chunks of 32 KiB), and compaction in place,
-- as the memory that a copying collector copies from would count too.
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
  yield -- the last has arrived, and now blocks
  performMajorGC
  bytes <- max 0 . subtract before <$> resident

  replicateM_ threads (putMVar resume ())
  await ended
  print (bytes `div` threads)
  readIORef ended >>= print
