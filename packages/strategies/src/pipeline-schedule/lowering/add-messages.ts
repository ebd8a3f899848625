import type { Action, ComputeAction, TransferAction } from '../actions/action.ts';
import { computationsOf, range, type StageEdge } from '../actions/schedule.ts';
import { dependenciesOf, makesInputGradient } from '../check/dependencies.ts';
import { sweepSchedule, type SweptSchedule } from '../check/sweep-schedule.ts';

/**
 * Adds a send after each action that makes a value which another rank needs, and the receive to the other rank's list
 * at the same time. So all messages are in one order, which each rank keeps, and no two ranks can wait for each other.
 */
export function addMessages(schedule: SweptSchedule, edges: readonly StageEdge[]): Action[][] {
  const { stages, rankOfStage } = schedule;
  const crossing = edges.filter(({ from, to }) => rankOfStage[from] !== rankOfStage[to]);
  const outgoing = range(stages).map((): number[] => []);
  const returning = range(stages).map((): number[] => []);
  for (const { from, to, gradient } of crossing) {
    outgoing[from]?.push(to);
    if (gradient) returning[to]?.push(from);
  }
  const lists = schedule.actions.map((): Action[] => []);
  const send = (kind: TransferAction['kind'], stage: number, peer: number, microbatch: number) => {
    lists[rankOfStage[stage] ?? 0]?.push({ kind, stage, peer, microbatch });
  };
  const sendResults = ({ kind, stage, microbatch }: ComputeAction): void => {
    if (kind === 'forward') {
      for (const to of outgoing[stage] ?? []) {
        send('sendActivation', stage, to, microbatch);
        send('receiveActivation', to, stage, microbatch);
      }
    } else if (makesInputGradient(kind)) {
      for (const from of returning[stage] ?? []) {
        send('sendGradient', stage, from, microbatch);
        send('receiveGradient', from, stage, microbatch);
      }
    }
  };
  sweepSchedule(schedule, dependenciesOf(edges, stages), (rank, action) => {
    lists[rank]?.push(action);
    for (const computation of computationsOf(action)) sendResults(computation);
  });
  return lists;
}
