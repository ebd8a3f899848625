import { createHash } from 'node:crypto';
import type { nn, Tensor } from '@shardwise/core';

/** Returns the elements of a tensor. */
export async function valuesOf(tensor: Tensor): Promise<number[]> {
  return Array.from(await tensor.data(), Number);
}

/** Returns the elements of each whole parameter and buffer of f32. */
export async function stateOf(model: nn.Module): Promise<Record<string, number[]>> {
  return floatsOf(await model.stateDict());
}

/** Returns the elements of f32 of a state dict. */
export function floatsOf(state: nn.StateDict): Record<string, number[]> {
  const floats = Object.entries(state).filter(([, { dtype }]) => dtype === 'f32');
  return Object.fromEntries(
    floats.map(([name, { bytes }]) => [name, [...new Float32Array(bytes.slice().buffer)]]),
  );
}

/** Returns the SHA-256 of the names, shapes and contents of all whole parameters and buffers. */
export async function hashOf(model: nn.Module): Promise<string> {
  const hash = createHash('sha256');
  for (const [name, { shape, bytes }] of Object.entries(await model.stateDict())) {
    hash.update(`${name} ${shape.join()}`).update(bytes);
  }
  return hash.digest('hex');
}
