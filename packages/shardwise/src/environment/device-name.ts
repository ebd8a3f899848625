/** The variable that `shardwise run --device` sets for its ranks. */
export const deviceVariable = 'SHARDWISE_DEVICE';

/** The devices on which ranks can compute. */
export const deviceNames = ['cpu', 'wasm', 'webgpu'] as const;
export type DeviceName = (typeof deviceNames)[number];

export function findDeviceName(text: string): DeviceName | undefined {
  return deviceNames.find((known) => known === text);
}
