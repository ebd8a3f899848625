import { linuxCalls } from './linux-calls.ts';

/**
 * From now on the kernel ends this process when its parent ends, also while it computes or is
 * blocked. False where that is not to be had: without Linux or the optional package koffi.
 */
export function endWithParent(): boolean {
  const parent = process.ppid;
  try {
    linuxCalls().dieWithParent();
  } catch {
    return false;
  }
  // It may have ended before the kernel was told.
  if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL');
  return true;
}
