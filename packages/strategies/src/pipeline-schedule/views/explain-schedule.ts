import { isSend, isTransfer } from '../actions/action-kinds.ts';
import { chainEdges, type Schedule, type StageEdge, stagesOfRank } from '../actions/schedule.ts';
import { lowerSchedule } from '../lowering/lower-schedule.ts';
import type { ScheduleCosts } from '../simulation/schedule-costs.ts';
import { simulateSchedule } from '../simulation/simulate-schedule.ts';
import { formatNumber } from './schedule-picture.ts';
import { textTable } from '../../plan/text-table.ts';

/** Facts about the ranks that the schedule does not contain. */
export interface KnownOfRanks {
  /** The number of elements of the parameters that each rank has. Default: not known. */
  readonly parameters?: readonly number[];
  /** The most bytes of activations that each rank keeps. Default: computed from the costs. */
  readonly liveBytes?: readonly number[];
}

/**
 * Describes a schedule in words. For each rank it gives the stages, the most microbatches that it keeps and their
 * bytes, what it sends, and how long it works and waits. It also gives the total time. Times are those of
 * `simulateSchedule`.
 */
export function explainSchedule(
  schedule: Schedule,
  costs: ScheduleCosts = {},
  edges: readonly StageEdge[] = chainEdges(schedule.stages),
  { parameters, liveBytes }: KnownOfRanks = {},
): string {
  const { name, ranks, stages, microbatches } = schedule;
  const { makespanMs, bubble, ranks: simulated } = simulateSchedule(schedule, costs, edges);
  const lowered = lowerSchedule(schedule, { edges });
  const bytesOf = new Map(edges.map(({ from, to, bytes = 0 }) => [`${from} ${to}`, bytes]));
  const rows = simulated.map((rank, index) => {
    const sends = (lowered.actions[index] ?? [])
      .filter(isTransfer)
      .filter(({ kind }) => isSend(kind));
    const sentBytes = sends.reduce((sum, { stage, peer }) => {
      const edge = `${Math.min(stage, peer)} ${Math.max(stage, peer)}`;
      return sum + (bytesOf.get(edge) ?? 0);
    }, 0);
    return [
      String(index),
      stagesOfRank(schedule, index).join(', '),
      ...(parameters === undefined ? [] : [String(parameters[index] ?? 0)]),
      String(rank.peakMicrobatches),
      formatNumber(liveBytes?.[index] ?? rank.peakActivationBytes),
      String(sends.length),
      formatNumber(sentBytes),
      formatNumber(rank.busyMs),
      formatNumber(rank.idleMs),
      formatNumber(rank.waitingMs),
    ];
  });
  const header = [
    'rank',
    'stages',
    ...(parameters === undefined ? [] : ['parameters']),
    'live',
    'live bytes',
    'sends',
    'sent bytes',
    'works ms',
    'waits ms',
    'inside ms',
  ];
  return [
    `${name}: ${stages} stages on ${ranks} ranks, ${microbatches} microbatches`,
    textTable([header, ...rows]),
    `makespan ${formatNumber(makespanMs)} ms, bubble ${formatNumber(100 * bubble)} %${assumptions(costs)}`,
  ].join('\n');
}

/** Says what the times are based on if nobody has measured them. */
function assumptions({ stages, link }: ScheduleCosts): string {
  const isUnknown =
    stages?.every((stage) =>
      [stage.forwardMs, stage.inputGradientMs, stage.weightGradientMs].every((ms) => ms === 1),
    ) ?? true;
  const messages = link === undefined ? 'no time' : `${formatNumber(link.latencyMs)} ms or more`;
  return `, if ${isUnknown ? 'F, I and W take 1 ms each and ' : ''}messages take ${messages}`;
}
