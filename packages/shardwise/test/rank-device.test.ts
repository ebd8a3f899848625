import { wasm } from '@shardwise/backend-cpu/wasm';
import { createSharedMemory } from '@shardwise/wasm-assembler';
import { expect, it } from 'vitest';
import { rankDevice } from '../src/rank/rank-device.ts';

const byteLength = 2 ** 20;
const arena = { memory: createSharedMemory(byteLength), byteOffset: 0, byteLength };

it('a rank computes on the CPU, or where --device says', async () => {
  expect((await rankDevice(undefined, arena, {})).name).toBe('cpu');
  const device = await rankDevice(undefined, arena, { SHARDWISE_DEVICE: 'wasm' });
  expect(device.name).toBe('wasm');
  expect(device.usage?.()).toMatchObject({ capacityBytes: byteLength });
});

it("a script's own device is taken, unless --device says another one", async () => {
  const own = await wasm(arena);
  expect(await rankDevice(own, arena, {})).toBe(own);
  expect(await rankDevice(own, arena, { SHARDWISE_DEVICE: 'wasm' })).toBe(own);
  await expect(rankDevice(own, arena, { SHARDWISE_DEVICE: 'webgpu' })).rejects.toThrow(
    'a rank on --device webgpu: the script gives init() the device wasm. Leave out one of them',
  );
});

it('a name of no device is an error that lists them', async () => {
  await expect(rankDevice(undefined, arena, { SHARDWISE_DEVICE: 'cuda' })).rejects.toThrow(
    'SHARDWISE_DEVICE=cuda: no device of this name. Use one of cpu, wasm, webgpu',
  );
});
