import { cpu } from '@shardwise/backend-cpu';

/** Whether backward reads the weights of attention here. It does if the device can't compute attention without them. */
export async function keepsScores(): Promise<boolean> {
  return !(await cpu({ byteLength: 1 << 20 })).limits.native.has('attention');
}
