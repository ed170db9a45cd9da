# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034,SC2154
. "$here/xz-freed.sh"
bug='#243: bytes read are told wrong, by a lost update'
arguments=
good='xz-utils 5.8.4'
