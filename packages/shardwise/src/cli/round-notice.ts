import type { RoundStart } from '../launcher/run-rounds.ts';
import {
  describeFailure,
  firstRankOf,
  worldSizeOf,
  type Round,
  type RoundEnd,
} from '../rendezvous/round.ts';
import { displayPath } from '../text/display-path.ts';

export interface RoundNotice {
  /** The text for the user. */
  readonly text: string;
  /** Why the ranks start again, for the run's record. */
  readonly reason: string | undefined;
}

/** Describes a round that begins. Returns nothing for the first round on the host that shows the run. */
export function describeRound(
  { round, before }: RoundStart,
  maxRestarts: number,
): RoundNotice | undefined {
  const place = placeText(round);
  if (round.epoch === 0 || before === undefined) {
    return round.nodeRank === 0 ? undefined : { text: place, reason: undefined };
  }
  const reason = reasonOf(before);
  const cost = before.kind === 'joined' ? '' : ` (restart ${round.restarts} of ${maxRestarts})`;
  const ranks = worldSizeOf(round);
  const from =
    round.resumeDirectory === undefined
      ? 'from the start'
      : `from ${displayPath(round.resumeDirectory)}`;
  const again = `Starting again${cost} with ${ranks} ${ranks === 1 ? 'rank' : 'ranks'} ${from}.`;
  const text = [`${reason}.`, again, ...(round.nodeRank === 0 ? [] : [place])].join(' ');
  return { text, reason };
}

function reasonOf(end: RoundEnd): string {
  switch (end.kind) {
    case 'failed':
      return describeFailure(end.failure).replace(/\.$/, '');
    case 'joined':
      return `${end.nodes.join(', ')} joined`;
    case 'stopped':
      return `${end.node} was told to end`;
    case 'finished':
      return 'All ranks finished';
    default:
      return end satisfies never;
  }
}

function placeText(round: Round): string {
  const { nodes, nodeRank } = round;
  const first = firstRankOf(round, nodeRank);
  const count = nodes[nodeRank]?.ranks ?? 0;
  const ranks = count === 1 ? `rank ${first}` : `ranks ${first} to ${first + count - 1}`;
  return `Node ${nodeRank} of ${nodes.length}: ${ranks}. Steps are shown on ${nodes[0]?.name} (node 0).`;
}
