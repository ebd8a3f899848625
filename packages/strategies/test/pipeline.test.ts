import { it } from 'vitest';
import { cuts, expectSameAsOneRank, type PipelineTask } from './pipeline-cases.ts';

it.each<[string, PipelineTask]>([
  ['GPipe of 2 stages', { schedule: 'gpipe', cut: cuts[2], microbatches: 4, rows: 8 }],
  ['7 rows in 4 microbatches', { schedule: '1f1b', cut: cuts[2], microbatches: 4, rows: 7 }],
  [
    'weights on two stages, skips, masks and dropout, with weight gradients apart',
    {
      schedule: 'zbv',
      cut: cuts[4],
      microbatches: 4,
      rows: 6,
      tied: true,
      skips: true,
      dropout: 0.3,
    },
  ],
])('stages on two ranks train as one rank that accumulates the same microbatches: %s', (_, task) =>
  expectSameAsOneRank(2, task),
);
