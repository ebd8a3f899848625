import { readFile } from 'node:fs/promises';

const LOOK_MS = 250;

/**
 * Calls `onStopped` once a process has been stopped (SIGSTOP, not by a debugger) for `limitMs`: it
 * holds up all others, and none of them can tell it from one that computes. Linux only; elsewhere
 * the time limits of calls have to do. Returns how to end the watch.
 */
export function watchStopped(pid: number, limitMs: number, onStopped: () => void): () => void {
  if (process.platform !== 'linux') return () => undefined;
  const needed = Math.ceil(limitMs / LOOK_MS);
  // Looks, not time: a launcher that was stopped itself has not seen its ranks go on.
  let seen = 0;
  const look = async (): Promise<void> => {
    seen = (await isStopped(pid)) ? seen + 1 : 0;
    if (seen === needed) onStopped();
  };
  const timer = setInterval(() => void look(), LOOK_MS);
  return () => clearInterval(timer);
}

/** Source: proc_pid_stat(5); the program's name, in parentheses, may hold anything. */
async function isStopped(pid: number): Promise<boolean> {
  const text = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '');
  return text.slice(text.lastIndexOf(')') + 2).startsWith('T');
}
