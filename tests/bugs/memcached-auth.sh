# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034,SC2154
. "$here/memcached-stop.sh"
bug='SIGHUP: passwords are freed while a worker compares them'
good='memcached 1.6.45'
mode=-fsanitize=thread
arguments=auth
