"""How emitted code uses the thread team: see ir/team for its layout."""

from __future__ import annotations

from loopwright.ir import team

__all__ = ["TEAM_FUNCTIONS"]

# The team's functions are those of the thread pool; a thread that is alone needs none of them.
TEAM_FUNCTIONS = f"""
define internal void @lw_barrier(ptr %team, i64 %thread) noinline {{
entry:
  %threads = load i64, ptr %team, align 8
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %done, label %arrive
arrive:
  %at = getelementptr i64, ptr %team, i64 {team.BARRIER}
  %barrier = load ptr, ptr %at, align 8
  call void %barrier(ptr %team, i64 %thread)
  br label %done
done:
  ret void
}}
"""
