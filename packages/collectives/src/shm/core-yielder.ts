import { linuxCalls } from './linux-calls.ts';

/** A function that lets other threads run on this core; undefined but on Linux with the optional package koffi. */
export function coreYielder(): (() => void) | undefined {
  try {
    const calls = linuxCalls();
    return () => calls.yieldCore();
  } catch {
    return undefined;
  }
}
