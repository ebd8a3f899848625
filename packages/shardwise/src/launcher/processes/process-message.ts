import type { RankMessage } from '../../run-state/message.ts';
import { launcherVariable } from '../environment.ts';
import type { LauncherOrder, RankData } from '../rank-data.ts';
import type { ErrorData } from './error-data.ts';

/** What a rank that is a process sends its launcher. */
export type FromProcess =
  | RankMessage
  | { readonly kind: 'error'; readonly error: ErrorData | string };

/** What it gets: once its data, then orders. */
export type ToProcess = RankData | LauncherOrder;

/** Whether this process, not a thread of it, is a rank that a launcher has started. */
export function isRankProcess(): boolean {
  return process.env[launcherVariable] === String(process.ppid) && process.send !== undefined;
}
