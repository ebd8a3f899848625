import { unavailableGroup } from '@shardwise/collectives';
import { expect, it } from 'vitest';

it('ranks that are apart know how many they are, and every call between them is refused', async () => {
  const group = unavailableGroup(1, 3, 'Do something else');
  expect([group.rank, group.size]).toEqual([1, 3]);
  const buffer = { bytes: new Uint8Array(4), dtype: 'f32' } as const;
  const calls = [
    group.allReduce(buffer, 'sum'),
    group.barrier(),
    group.send(buffer, 0),
    group.recv(buffer, 2),
    group.split(0, 0),
  ];
  for (const call of calls) {
    await expect(call).rejects.toThrow(/rank 1 to the others of 3.*Do something else/s);
  }
  group.close();
  await expect(group.barrier()).rejects.toThrow(/closed/);
});
