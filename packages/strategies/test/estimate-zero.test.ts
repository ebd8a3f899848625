import { ConfigError } from '@shardwise/core';
import { estimateZero2, estimateZero3 } from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';

const gibibyte = 2 ** 30;
const cluster = { nodes: 1, ranksPerNode: 8 };

/** Formats the bytes as DeepSpeed prints them: in GiB, with two digits. */
function printed({ hostBytes, deviceBytes }: ReturnType<typeof estimateZero2>): string {
  return `${(hostBytes / gibibyte).toFixed(2)} | ${(deviceBytes / gibibyte).toFixed(2)}`;
}

describe("DeepSpeed's estimate of ZeRO-2 for 2851 million parameters on 8 ranks", () => {
  const model = { elements: 2851e6, ...cluster };

  it("DeepSpeed's estimate of ZeRO-2 for 2851 million parameters on 8 ranks keeps 16-bit parameters alone on the device, when offloaded", () => {
    expect(printed(estimateZero2({ ...model, offload: true }))).toBe('127.45 | 5.31');
  });

  it("DeepSpeed's estimate of ZeRO-2 for 2851 million parameters on 8 ranks is what its code computes, and not the 15.93 of its documentation", () => {
    expect(printed(estimateZero2({ ...model, offload: false }))).toBe('127.45 | 11.28');
  });
});

describe("DeepSpeed's estimate of ZeRO-3 for 2851 million parameters on 8 ranks", () => {
  const model = { elements: 2851e6, largestLayerElements: 32e6, ...cluster };

  it.each([
    ['optimizer and parameters', true, '71.69 | 0.12'],
    ['optimizer and parameters', false, '127.45 | 0.12'],
    ['optimizer', true, '63.72 | 0.78'],
    ['optimizer', false, '127.45 | 0.78'],
    ['nothing', true, '1.43 | 6.09'],
    ['nothing', false, '127.45 | 6.09'],
  ] as const)('offloading %s, constructed in parts: %s', (offload, constructSharded, expected) => {
    expect(printed(estimateZero3({ ...model, offload, constructSharded }))).toBe(expected);
  });

  it.each([
    ['nothing', 3291],
    ['optimizer and parameters', 125],
    ['optimizer', 477],
  ] as const)('of t5-large on 4 ranks, offloading %s', (offload, mebibytes) => {
    const t5 = { elements: 737.67e6, largestLayerElements: 32.9e6, nodes: 1, ranksPerNode: 4 };
    const { deviceBytes } = estimateZero3({ ...t5, offload });
    // The element counts in DeepSpeed's documentation are rounded to 10 thousand.
    expect(Math.abs(deviceBytes / 2 ** 20 - mebibytes)).toBeLessThan(1);
  });
});

it('refuses counts that are not positive integers', () => {
  const ask = (elements: number): unknown =>
    estimateZero2({ elements, nodes: 1, ranksPerNode: 8, offload: false });
  expect(() => ask(0)).toThrow(ConfigError);
  expect(() => ask(1.5)).toThrow('estimateZero2 with elements: 1.5');
});
