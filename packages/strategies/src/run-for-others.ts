import { noGrad, type Tensor } from '@shardwise/core/extend';

/** Has the program run a collective whose result is of no use on this rank, and keeps one element of it. */
export function runForOthers(result: Tensor): void {
  if (result.numel === 0) return;
  noGrad(() => result.reshape([result.numel]).slice(0, 0, 1).retain());
}
