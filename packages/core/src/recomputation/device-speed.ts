import type { Backend } from '../spec/backend.ts';

/** How fast a device computes, and how fast values leave it and come back. */
export interface DeviceSpeed {
  /** Floating-point operations of products per second. */
  readonly flopsPerSecond: number;
  /** Bytes per second, in each direction, between the device and pages. */
  readonly pageBytesPerSecond: number;
}

/** What is usual: four cores that copy in their memory, and a GPU at 16 lanes of PCIe 4. */
const ofProcessor: DeviceSpeed = { flopsPerSecond: 1e11, pageBytesPerSecond: 4e9 };
const ofGpu: DeviceSpeed = { flopsPerSecond: 2e13, pageBytesPerSecond: 2e10 };

/** The time of a move of no bytes: the program is cut there, and the host is asked. */
export const MOVE_SECONDS = 2e-5;

export function usualSpeed(backend: Backend): DeviceSpeed {
  return computesAside(backend) ? ofGpu : ofProcessor;
}

/** Whether a device computes while the host moves values. A processor does one after the other. */
export function computesAside({ timing }: Backend): boolean {
  return timing !== undefined;
}
