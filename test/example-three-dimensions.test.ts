import { expect, test, vi } from 'vitest';

test('the example of three dimensions prints what the devices of 4 and of 12 stages hold', async () => {
  const print = vi.spyOn(console, 'log').mockReturnValue();
  await import('../examples/three-dimensions/layouts.ts');
  const lines = print.mock.calls.join('\n').split('\n');
  print.mockRestore();
  // There are 70 layers of 12 C² + 13 C, the embedding and the last norm, with C = 14336 and V = 250880.
  expect(lines).toContain('176.25 billion parameters in f32, AdamW');
  // The embedding and five layers are on four devices. AdamW's states are sharded over eight more.
  expect(lines).toContain('    0                    15928801280  14.84 GiB, 14.84 GiB, 3.71 GiB');
  expect(lines.filter((line) => line.includes(' 14798622720 '))).toHaveLength(10);
  expect(lines).toContain('   11                    12332214272  11.49 GiB, 11.49 GiB, 2.87 GiB');
  // (p - 1) / (m + p - 1)
  const makespan = 'makespan 417 ms, bubble 7.914 %, if F, I and W take 1 ms each';
  expect(lines).toContain(`${makespan} and messages take no time`);
});
