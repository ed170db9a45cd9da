%% SPDX-License-Identifier: MIT

%% erlang-memory: processes that wait for a message. Each has a heap of 233 words, its
%% stack included: spawn_opt and +hms can make it larger, but not smaller.
%%
%% erlang-memory-hibernate: the same, waiting in erlang:hibernate, which drops the stack
%% and shrinks the heap to live data.
-module(bench_memory).
-export([receiving/0, hibernating/0, wait/1, sleep/1, resumed/1]).

wait(Main) ->
    Main ! arrived,
    resumed(Main).

sleep(Main) ->
    Main ! arrived,
    erlang:hibernate(?MODULE, resumed, [Main]).

resumed(Main) ->
    receive
        resume -> Main ! ended
    end.

%% One after the other, so that main does not have to hold their messages.
create(0, _Function, Pids) ->
    Pids;
create(Threads, Function, Pids) ->
    Pid = spawn(?MODULE, Function, [self()]),
    receive
        arrived -> create(Threads - 1, Function, [Pid | Pids])
    end.

measure(Program, Function, Least) ->
    Threads = bench_peer:argument(Program, "THREADS"),
    bench_peer:need_memory(Program, Threads, Least),
    bench_peer:resident(), % loads the code that it needs
    erlang:garbage_collect(),
    Before = bench_peer:resident(),
    Pids = create(Threads, Function, []),
    erlang:yield(), % the last process blocks now
    erlang:garbage_collect(),
    Bytes = max(0, bench_peer:resident() - Before),

    [Pid ! resume || Pid <- Pids],
    Ended = length([receive ended -> ok end || _ <- Pids]),
    Ended =:= Threads orelse bench_peer:fail(Program, "not all have ended"),
    bench_peer:print(integer_to_list(Bytes div Threads), Ended).

receiving() ->
    measure("erlang-memory", wait, 2700).

hibernating() ->
    measure("erlang-memory-hibernate", sleep, 900).
