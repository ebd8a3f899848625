import { readFileSync, writeFileSync } from 'node:fs';

/**
 * Returns the resident memory of this process, now or at its highest. On systems without /proc, both are the highest.
 */
export function residentBytes(line: 'VmRSS' | 'VmHWM'): number {
  if (process.platform !== 'linux') return process.resourceUsage().maxRSS * 1024;
  const status = readFileSync('/proc/self/status', 'utf8');
  const [, kibibytes = ''] = new RegExp(`^${line}:\\s+(\\d+) kB$`, 'm').exec(status) ?? [];
  return Number(kibibytes) * 1024;
}

/** Resets the system's record of the highest resident memory. Returns false if the system cannot do that. */
export function forgetHighest(): boolean {
  try {
    writeFileSync('/proc/self/clear_refs', '5');
    return true;
  } catch {
    return false;
  }
}
