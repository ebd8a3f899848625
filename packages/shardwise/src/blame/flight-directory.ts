import { join } from 'node:path';

/** Where the ranks of a run leave their dumps. */
export function flightDirectory(runDirectory: string): string {
  return join(runDirectory, 'flight');
}
