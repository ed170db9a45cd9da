-- SPDX-License-Identifier: MIT

-- | Shared by the Haskell programs: arguments, failures, memory.
module Peer (argument, failWith, needMemory, resident) where

import Data.Char (isDigit)
import Foreign.C.Types (CInt (..))
import System.Environment (getArgs, getProgName)
import System.Exit (ExitCode (..), exitWith)
import System.IO (hPutStrLn, stderr)
import System.IO.Error (catchIOError)

complain :: Int -> String -> IO a
complain status what = hPutStrLn stderr what >> exitWith (ExitFailure status)

-- | Ends the program after an error, without a result.
failWith :: String -> IO a
failWith what = do
  program <- getProgName
  complain 1 (program ++ ": " ++ what)

-- | The only argument, a positive number.
argument :: String -> IO Int
argument name = do
  program <- getProgName
  args <- getArgs
  case args of
    [text]
      | not (null text), all isDigit text, value >= 1, value <= toInteger (maxBound :: Int) ->
          return (fromInteger value)
      where value = read text :: Integer
    _ -> complain 2 ("usage: " ++ program ++ " " ++ name)

foreign import ccall unsafe "getpagesize" pageSize :: IO CInt

-- | The resident memory of this process, in bytes.
resident :: IO Int
resident = do
  text <- readFile "/proc/self/statm" `catchIOError` (failWith . show)
  case words text of
    (_ : pages : _) -> do
      size <- pageSize
      return $! read pages * fromIntegral size
    _ -> failWith "/proc/self/statm: no second number"

-- | Fails if there is no memory for so many threads: the runtime would end with another
-- message, or be killed.
needMemory :: Int -> IO ()
needMemory threads = do
  text <- readFile "/proc/meminfo" `catchIOError` const (return "")
  case [read kib | ["MemAvailable:", kib, _] <- map words (lines text)] of
    (kib : _)
      | threads > kib * 1024 `div` each ->
          failWith ("not enough memory for " ++ show threads ++ " threads")
    _ -> return ()
  where
    each = 700 -- with a stack of 512 bytes, and compaction
