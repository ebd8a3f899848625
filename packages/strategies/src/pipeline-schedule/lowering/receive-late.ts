import { isReceive, isTransfer } from '../actions/action-kinds.ts';
import type { Action, TransferAction } from '../actions/action.ts';
import { computationsOf } from '../actions/schedule.ts';
import { makesInputGradient } from '../check/dependencies.ts';

/**
 * Moves each receive to right before the action that needs it, as PyTorch does. If two ranks exchange messages, the
 * lower one still receives what the other has sent before it sends itself. Sends must not wait for their receives.
 * Otherwise ranks would block, in 1F1B with two ranks already.
 */
export function receiveLate(
  actions: readonly Action[],
  rank: number,
  rankOfStage: readonly number[],
): Action[] {
  const late: Action[] = [];
  let waiting: TransferAction[] = [];
  const take = (isDue: (receive: TransferAction) => boolean): void => {
    late.push(...waiting.filter(isDue));
    waiting = waiting.filter((receive) => !isDue(receive));
  };
  for (const action of actions) {
    if (isTransfer(action)) {
      if (isReceive(action.kind)) {
        waiting.push(action);
        continue;
      }
      const to = rankOfStage[action.peer] ?? 0;
      if (rank < to) take(({ peer }) => rankOfStage[peer] === to);
    }
    for (const { kind, stage, microbatch } of computationsOf(action)) {
      const needed =
        kind === 'forward'
          ? 'receiveActivation'
          : makesInputGradient(kind)
            ? 'receiveGradient'
            : undefined;
      take(
        (receive) =>
          receive.kind === needed && receive.stage === stage && receive.microbatch === microbatch,
      );
    }
    late.push(action);
  }
  return late;
}
