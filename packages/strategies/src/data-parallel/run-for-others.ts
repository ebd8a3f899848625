import { noGrad, type Tensor } from '@shardwise/core/extend';

/** Makes the program run a collective whose result this rank does not need. It keeps one element of the result. */
export function runForOthers(result: Tensor): void {
  if (result.numel === 0) return;
  noGrad(() => result.reshape([result.numel]).slice(0, 0, 1).retain());
}
