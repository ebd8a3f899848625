import { readFile } from 'node:fs/promises';
import { deepspeed } from '@shardwise/compat';
import { nn, optim } from 'shardwise';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

const text = await readFile(new URL('golden/schedules.json', import.meta.url), 'utf8');
const cases = z
  .array(
    z.object({
      type: z.string(),
      params: z.record(z.string(), z.unknown()),
      rates: z.array(z.number()),
      momenta: z.array(z.number()),
    }),
  )
  .parse(JSON.parse(text));

function adam(): optim.Adam {
  return new optim.Adam(new nn.Linear(1, 1).parameters(), { lr: 2e-3, betas: [0.9, 0.99] });
}

describe('schedules of DeepSpeed', () => {
  it.each(cases)('$type $params has the learning rates of DeepSpeed, to the last digit', (each) => {
    const optimizer = adam();
    const scheduler = new deepspeed.DeepSpeedScheduler(optimizer, each.type, each.params);
    const found = each.rates.map((_, step) => {
      if (step > 0) scheduler.step();
      const [group] = optimizer.paramGroups;
      return { lr: group?.lr, momentum: group?.betas[0], second: group?.betas[1] };
    });
    expect(found.map(({ lr }) => lr)).toEqual(each.rates);
    expect(found.map(({ momentum }) => momentum)).toEqual(each.momenta);
    expect(new Set(found.map(({ second }) => second))).toEqual(new Set([0.99]));
  });

  it('continues from its state', () => {
    const params = { total_num_steps: 20, warmup_num_steps: 5 };
    const first = new deepspeed.DeepSpeedScheduler(adam(), 'WarmupDecayLR', params);
    for (let step = 0; step < 9; step++) first.step();
    const second = new deepspeed.DeepSpeedScheduler(adam(), 'WarmupDecayLR', params);
    second.loadStateDict(first.stateDict());
    expect(second.getLastLr()).toEqual(first.getLastLr());
    expect(() => second.loadStateDict({ step: 3 })).toThrow('what stateDict()');
  });

  it('takes the learning rate of each group where the schedule names none', () => {
    const [a, b] = [new nn.Linear(1, 1), new nn.Linear(1, 1)];
    const optimizer = new optim.SGD([
      { params: a.parameters(), lr: 1 },
      { params: b.parameters(), lr: 0.1 },
    ]);
    const scheduler = new deepspeed.DeepSpeedScheduler(optimizer, 'WarmupLR', {
      warmup_num_steps: 2,
    });
    expect(scheduler.getLastLr()).toEqual([0, 0]);
    for (let step = 0; step < 4; step++) scheduler.step();
    expect(scheduler.getLastLr()).toEqual([1, 0.1]);
  });

  it.each([
    ['CosineLR', {}, 'scheduler.type CosineLR: no schedule of DeepSpeed'],
    ['WarmupDecayLR', {}, 'scheduler.params.total_num_steps of WarmupDecayLR'],
    ['WarmupLR', { warmup_steps: 3 }, 'warmup_steps'],
    [
      'WarmupLR',
      { warmup_steps: 3 },
      'scheduler.params.warmup_steps of WarmupLR: no such parameter. Write warmup_num_steps',
    ],
    ['WarmupLR', { warmup_num_steps: '3' }, 'scheduler.params.warmup_num_steps of WarmupLR'],
    ['WarmupLR', { warmup_type: 'square' }, 'scheduler.params.warmup_type of WarmupLR'],
    ['OneCycle', { cycle_min_lr: 1 }, 'scheduler.params.cycle_max_lr of OneCycle'],
  ])('refuses %s with %o', (type, params, message) => {
    expect(() => new deepspeed.DeepSpeedScheduler(adam(), type, params)).toThrow(message);
  });
});
