import { planTraining } from '@shardwise/planner';
import { describe, expect, it } from 'vitest';
import { gigabytesText, planInPage, summaryOf } from '../explorers/plan-in-page.ts';

const choices = { model: 'gpt:175b', device: 'a100', devices: 64, batch: 512, percent: 10 };

describe('the plan that the page of the guide shows', () => {
  it('is that of the command: nothing is left out of the search, so no change asks for what the page cannot choose', () => {
    const asked = { model: choices.model, cluster: '64xa100', batch: 512, memoryBytes: 8e9 };
    expect(planInPage(choices)).toEqual(planTraining({ ...asked, keep: 5 }));
  });

  it('says in one unit, that of devices, what a rank needs and what is least', () => {
    const plan = planInPage({ ...choices, devices: 1 });
    const least = plan.smallest?.memory.totalBytes ?? Number.NaN;
    const text = summaryOf(plan);
    expect(text).toContain(`Nothing fits. The least is ${(least / 1e9).toFixed(1)} GB.`);
    expect(text).not.toContain('iB');
    expect(gigabytesText(80e9)).toBe('80.0 GB');
  });
});
