(* SPDX-License-Identifier: MIT *)

(* Shared by the OCaml programs: arguments, failures, the clock, memory. *)

external now : unit -> (float[@unboxed]) = "peer_now_boxed" "peer_now"
[@@noalloc]

external page_size : unit -> int = "peer_page_size" [@@noalloc]

let program = Filename.basename Sys.executable_name

let complain status what =
  prerr_endline what;
  exit status

(* Ends the program after an error, without a result. *)
let fail what = complain 1 (program ^ ": " ^ what)

(* The only argument, a positive number. *)
let argument name =
  let decimal = String.for_all (fun c -> c >= '0' && c <= '9') in
  match Sys.argv with
  | [| _; text |] when decimal text && Option.is_some (int_of_string_opt text)
                       && int_of_string text > 0 ->
      int_of_string text
  | _ -> complain 2 ("usage: " ^ program ^ " " ^ name)

(* The resident memory of this process, in bytes. *)
let resident () =
  let channel = Scanf.Scanning.open_in "/proc/self/statm" in
  let pages = Scanf.bscanf channel "%_d %d" Fun.id in
  Scanf.Scanning.close_in channel;
  pages * page_size ()

(* Bytes of memory available without swapping. *)
let available () =
  let rec find channel =
    match input_line channel with
    | exception End_of_file -> max_int
    | line -> (
        try Scanf.sscanf line "MemAvailable: %d kB" (fun kib -> kib * 1024)
        with Scanf.Scan_failure _ -> find channel)
  in
  let channel = open_in "/proc/meminfo" in
  Fun.protect ~finally:(fun () -> close_in channel) (fun () -> find channel)

(* Fails if there is no memory for so many threads of so many bytes each. *)
let need_memory threads each =
  if threads > available () / each then
    fail (Printf.sprintf "not enough memory for %d threads" threads)
