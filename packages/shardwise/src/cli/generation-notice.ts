import type { GenerationStart } from '../launcher/run-generations.ts';
import {
  describeFailure,
  firstRankOf,
  worldSizeOf,
  type Generation,
  type GenerationEnd,
} from '../rendezvous/generation.ts';
import { displayPath } from '../text/display-path.ts';

export interface GenerationNotice {
  /** The text for the user. */
  readonly text: string;
  /** Why the ranks start again, for the run's record. */
  readonly reason: string | undefined;
}

/** Describes a generation that begins. Returns nothing for the first generation on the host that shows the run. */
export function describeGeneration(
  { generation, before, isSame = false }: GenerationStart,
  maxRestarts: number,
): GenerationNotice | undefined {
  const place = placeText(generation);
  if (before === undefined) {
    return generation.nodeRank === 0 ? undefined : { text: place, reason: undefined };
  }
  const reason = reasonOf(before);
  // A host that has lost its place has another one in the generation that the others go on with.
  if (isSame) return { text: `${reason}. ${place}`, reason };
  const cost =
    before.kind === 'joined' ? '' : ` (restart ${generation.restarts} of ${maxRestarts})`;
  const ranks = worldSizeOf(generation);
  const from =
    generation.resumeDirectory === undefined
      ? 'from the start'
      : `from ${displayPath(generation.resumeDirectory)}`;
  const again = `Starting again${cost} with ${ranks} ${ranks === 1 ? 'rank' : 'ranks'} ${from}.`;
  const text = [`${reason}.`, again, ...(generation.nodeRank === 0 ? [] : [place])].join(' ');
  return { text, reason };
}

function reasonOf(end: GenerationEnd): string {
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

function placeText(generation: Generation): string {
  const { nodes, nodeRank } = generation;
  const first = firstRankOf(generation, nodeRank);
  const count = nodes[nodeRank]?.ranks ?? 0;
  const ranks = count === 1 ? `rank ${first}` : `ranks ${first} to ${first + count - 1}`;
  return `Node ${nodeRank} of ${nodes.length}: ${ranks}. Steps are shown on ${nodes[0]?.name} (node 0).`;
}
