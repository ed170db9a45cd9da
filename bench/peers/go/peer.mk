# SPDX-License-Identifier: MIT
#
# They need the standard library only. It has coroutines since Go 1.23.

GO ?= go
go := GOTOOLCHAIN=local GOFLAGS= GOWORK=off GOPROXY=off CGO_ENABLED=0 $(GO)
go_version := $(wordlist 3,4,$(shell $(go) version 2>/dev/null))
go_pull    := $(if $(shell $(go) list iter 2>/dev/null),$(go_version))

$(eval $(call offer,go,cycle ring memory http echo chat uneven channel requests,$(go_version),golang-go))
$(eval $(call offer,go,pingpong create walk,$(go_pull),Go 1.23 or newer))

$(P)/go-%: go/%/main.go $(wildcard go/internal/*/*.go) go/go.mod go/peer.mk
	@mkdir -p $(@D)
	cd go && $(go) build -trimpath -buildvcs=false -o $@ ./$*
