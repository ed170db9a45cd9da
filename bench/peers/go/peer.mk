# SPDX-License-Identifier: MIT
#
# They need the standard library only, which has coroutines since Go 1.23. One binary is
# each program by its name, but for the chat.

GO ?= go
go := GOTOOLCHAIN=local GOFLAGS= GOWORK=off GOPROXY=off CGO_ENABLED=0 $(GO)
go_version := $(wordlist 3,4,$(shell $(go) version 2>/dev/null))
go_pull    := $(if $(shell $(go) list iter 2>/dev/null),$(go_version))

$(eval $(call offer,go,cycle ring memory http echo chat uneven channel,$(go_version),golang-go))
$(eval $(call offer,go,pingpong create,$(go_pull),Go 1.23 or newer))

$(P)/go-chat: go/chat/main.go go/go.mod
	@mkdir -p $(@D)
	cd go && $(go) build -trimpath -buildvcs=false -o $@ ./chat

$(P)/go: $(wildcard go/*.go) go/go.mod go/peer.mk | $(call say,go,cycle)
	@mkdir -p $(@D)
	cd go && $(go) build -trimpath -buildvcs=false -o $@ .

$(P)/go-%: $(P)/go
	cp -f $< $@
