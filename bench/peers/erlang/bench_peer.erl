%% SPDX-License-Identifier: MIT

%% Shared by the Erlang programs: arguments, failures, output, memory.
-module(bench_peer).
-export([argument/2, fail/2, print/2, seconds/1, need_memory/3, resident/0]).

-define(MOST, (1 bsl 59 - 1)). % larger numbers are on the heap

complain(Status, Format, Values) ->
    io:format(standard_error, Format ++ "~n", Values),
    halt(Status).

%% Ends the program after an error, without a result.
fail(Program, What) ->
    complain(1, "~s: ~s", [Program, What]).

%% The only argument, a positive number.
argument(Program, Name) ->
    Decimal = fun(C) -> C >= $0 andalso C =< $9 end,
    case init:get_plain_arguments() of
        [[_ | _] = Text] ->
            case lists:all(Decimal, Text) andalso list_to_integer(Text) of
                Value when is_integer(Value), Value >= 1, Value =< ?MOST -> Value;
                _ -> complain(2, "usage: ~s ~s", [Program, Name])
            end;
        _ ->
            complain(2, "usage: ~s ~s", [Program, Name])
    end.

seconds(Native) ->
    Nanoseconds = erlang:convert_time_unit(Native, native, nanosecond),
    io_lib:format("~.6f", [Nanoseconds / 1.0e9]).

%% Prints the two lines of the result, and ends the program.
print(First, Answer) ->
    io:format("~s~n~b~n", [First, Answer]),
    halt(0).

%% Fails if there is no memory for so many processes of so many bytes each: the runtime
%% cannot be asked, and ends the program.
need_memory(Program, Threads, Each) ->
    {ok, Text} = file:read_file("/proc/meminfo"),
    {match, [KiB]} = re:run(Text, "MemAvailable: *([0-9]+)", [{capture, [1], list}]),
    Limit = min(list_to_integer(KiB) * 1024 div Each,
                erlang:system_info(process_limit) - erlang:system_info(process_count)),
    Threads =< Limit orelse
        fail(Program, io_lib:format("not enough memory for ~b processes", [Threads])).

%% The resident memory of this process, in bytes.
resident() ->
    Page = list_to_integer(string:trim(os:cmd("getconf PAGESIZE"))),
    {ok, Text} = file:read_file("/proc/self/statm"),
    {ok, [_, Pages], _} = io_lib:fread("~d ~d", binary_to_list(Text)),
    Pages * Page.
