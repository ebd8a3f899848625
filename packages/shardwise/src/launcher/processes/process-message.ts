import type { RankMessage } from '../../run-state/run-message.ts';
import { launcherVariable } from '../ranks/environment.ts';
import type { MemberMessage } from '../ranks/member-message.ts';
import type { LauncherOrder, RankData } from '../ranks/rank-data.ts';
import type { ErrorData } from './error-data.ts';

/** A message of a rank that is a process to its launcher. */
export type FromProcess =
  | RankMessage
  | MemberMessage
  | { readonly kind: 'error'; readonly error: ErrorData | string };

/** A message of the launcher to a rank: first its data, then orders. */
export type ToProcess = RankData | LauncherOrder;

/** Whether this process is a rank that a launcher has started. False in threads of such a process. */
export function isRankProcess(): boolean {
  return process.env[launcherVariable] === String(process.ppid) && process.send !== undefined;
}
