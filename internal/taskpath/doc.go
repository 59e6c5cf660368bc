// Package taskpath opens every path that a job names.
//
// What a sandbox may write, it may also replace by a link at any moment. So a
// path of a job is never handed on as text: it is resolved once, beneath the
// task's own folders and through no link, and from then on the open file is
// meant. Where a path is needed all the same (a bind mount's source), the open
// file is bound to a place nobody else can write to; see [Stage].
package taskpath
