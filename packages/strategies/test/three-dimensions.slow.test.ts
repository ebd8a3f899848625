import { expect, test } from 'vitest';
import { expectComposed } from './pipeline-composition-cases.ts';
import { testMs } from './time-limits.ts';

// The picture is from Microsoft Research 2020, "DeepSpeed: Extreme-scale model training for everyone".
test(
  'thirty-two ranks, in 4 stages of 4 parts of layers, twice, train as one rank',
  async () => {
    await expectComposed({
      axes: [
        { name: 'dp', size: 2 },
        { name: 'pp', size: 4 },
        { name: 'tp', size: 4 },
      ],
      names: ['ZeRO-1'],
      cut: ['blocks.1', 'blocks.2', 'blocks.3'],
    });
    expect.hasAssertions();
  },
  testMs,
);
