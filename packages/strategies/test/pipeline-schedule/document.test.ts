import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  lowerSchedule,
  pipelineSchedule,
  type ScheduleName,
  scheduleNames,
  simulateSchedule,
  visualizeSchedule,
} from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';
import { linesOf } from './golden-schedules.ts';

const text = readFileSync(
  join(import.meta.dirname, '../../../../docs/pipeline-schedules.md'),
  'utf8',
);

const rows = text
  .split('\n')
  .map((line) => line.split('|').map((cell) => cell.trim().replaceAll('`', '')))
  .filter((cells) => scheduleNames.some((name) => name === cells[1]));

const blocks = Array.from(text.matchAll(/```text\n([^`]*)\n```/g), ([, block = '']) => block);

describe('the page on schedules', () => {
  it('the page on schedules has every schedule', () => {
    expect(rows.map(([, name]) => name)).toEqual(scheduleNames);
  });

  it.each(rows.map((cells) => [cells[1] ?? '', cells] as const))(
    'has the times and the memory of %s from the simulator',
    (name, cells) => {
      const schedule = pipelineSchedule(name as ScheduleName, { ranks: 4, microbatches: 8 });
      const perRank = schedule.stages / schedule.ranks;
      const share = 1 / perRank;
      const stages = schedule.rankOfStage.map(() => ({
        forwardMs: share,
        inputGradientMs: share,
        weightGradientMs: share,
      }));
      const [near, far] = [0, 0.5].map((latencyMs) =>
        simulateSchedule(schedule, { stages, link: { latencyMs } }),
      );
      const numbers = [
        near?.makespanMs,
        Math.max(...(near?.ranks ?? []).map(({ waitingMs }) => waitingMs)),
        far?.makespanMs,
        Math.max(...(near?.ranks ?? []).map((rank) => rank.peakMicrobatches / perRank)),
      ];
      expect(cells.slice(5, 9).map(Number)).toEqual(numbers);
      expect(cells[2]).toBe(stagesWord(name as ScheduleName));
    },
  );

  it('the page on schedules has the drawings as they are drawn', () => {
    const drawings = blocks.filter((block) => block.includes('simulated'));
    for (const drawing of drawings) {
      const [, name, ranks, microbatches] =
        /^(\w+): \d+ stages on (\d+) ranks, (\d+) micro/.exec(drawing) ?? [];
      const shape = { ranks: Number(ranks), microbatches: Number(microbatches) };
      const schedule = pipelineSchedule(name as ScheduleName, shape);
      expect(visualizeSchedule(schedule, { columns: 120 })).toBe(drawing);
    }
    expect(drawings).toHaveLength(scheduleNames.length - 1);
  });

  it('the page on schedules has what ranks execute as it is', () => {
    const [, ...lines] = blocks.find((block) => block.includes('executed'))?.split('\n') ?? [];
    const schedule = pipelineSchedule('1f1b', { ranks: 2, microbatches: 2 });
    expect(linesOf(lowerSchedule(schedule))).toEqual(lines);
  });
});

/** The numbers of stages per rank that the schedule supports. */
function stagesWord(name: ScheduleName): string {
  const taken = [1, 2, 3].filter((stagesPerRank) => {
    try {
      pipelineSchedule(name, { ranks: 2, stagesPerRank, microbatches: 8 });
      return true;
    } catch {
      return false;
    }
  });
  return taken.length === 3 ? 'any' : taken.join(', ');
}
