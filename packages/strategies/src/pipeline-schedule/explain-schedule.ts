import { textTable } from '../text-table.ts';
import { formatNumber } from './format-number.ts';
import { isSend, isTransfer } from './action-kinds.ts';
import { lowerSchedule } from './lower-schedule.ts';
import { chainEdges, type Schedule, stagesOfRank, type StageEdge } from './schedule.ts';
import type { ScheduleCosts } from './schedule-costs.ts';
import { simulateSchedule } from './simulate-schedule.ts';

/**
 * A schedule in words, for each rank: its stages, how many microbatches it keeps at most and their bytes, what it
 * sends, how long it works and waits; and how long all takes. Times are those of `simulateSchedule`.
 */
export function explainSchedule(
  schedule: Schedule,
  costs: ScheduleCosts = {},
  edges: readonly StageEdge[] = chainEdges(schedule.stages),
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
      String(rank.peakMicrobatches),
      formatNumber(rank.peakActivationBytes),
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
    `makespan ${formatNumber(makespanMs)} ms, bubble ${formatNumber(100 * bubble)} %`,
  ].join('\n');
}
