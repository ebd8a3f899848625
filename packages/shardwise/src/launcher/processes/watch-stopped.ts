import { readFile } from 'node:fs/promises';

const LOOK_MS = 250;

/**
 * Calls `onStopped` when a process has been stopped (by SIGSTOP, not by a debugger) for `limitMs`. A stopped rank holds
 * up all others, and they cannot distinguish it from a rank that computes. It works only on Linux. Elsewhere the time
 * limits of calls have to suffice. Returns a function that ends the watch.
 */
export function watchStopped(pid: number, limitMs: number, onStopped: () => void): () => void {
  if (process.platform !== 'linux') return () => undefined;
  const needed = Math.ceil(limitMs / LOOK_MS);
  // Counts looks instead of time, because a launcher that was stopped itself has not seen its ranks go on.
  let seen = 0;
  const look = async (): Promise<void> => {
    seen = (await isStopped(pid)) ? seen + 1 : 0;
    if (seen === needed) onStopped();
  };
  const timer = setInterval(() => void look(), LOOK_MS);
  return () => clearInterval(timer);
}

/** Source: proc_pid_stat(5). The program's name, in parentheses, may contain any characters. */
async function isStopped(pid: number): Promise<boolean> {
  const text = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '');
  return text.slice(text.lastIndexOf(')') + 2).startsWith('T');
}
