import { cpu } from '@shardwise/backend-cpu';
import { type Backend, ConfigError } from '@shardwise/core/extend';
import {
  type DeviceName,
  deviceNames,
  deviceVariable,
  findDeviceName,
} from '../environment/device-name.ts';
import type { JoinedRank } from './join/joined-rank.ts';

/**
 * Returns the device of a rank: the script's own, otherwise the one that the environment names, otherwise the CPU.
 * Throws ConfigError if script and environment name different devices, or the environment names an unknown one. Throws
 * BackendError if the device is not available.
 */
export async function rankDevice(
  own: Backend | undefined,
  arena: JoinedRank['arena'],
  environment: NodeJS.ProcessEnv,
): Promise<Backend> {
  const asked = environment[deviceVariable];
  if (own === undefined) return createDevice(asked === undefined ? 'cpu' : nameOf(asked), arena);
  if (asked === undefined || own.name === nameOf(asked)) return own;
  throw new ConfigError(
    {
      asked: `a rank on --device ${asked}`,
      found: `the script gives init() the device ${own.name}`,
      todo: 'Leave out one of them',
    },
    { asked, device: own.name },
  );
}

async function createDevice(name: DeviceName, arena: JoinedRank['arena']): Promise<Backend> {
  switch (name) {
    case 'cpu':
      return cpu(arena);
    case 'wasm': {
      const { wasm } = await import('@shardwise/backend-cpu/wasm');
      return wasm(arena);
    }
    case 'webgpu': {
      const { webgpu } = await import('@shardwise/backend-webgpu');
      return webgpu(arena);
    }
    default:
      return name satisfies never;
  }
}

function nameOf(text: string): DeviceName {
  const name = findDeviceName(text);
  if (name !== undefined) return name;
  throw new ConfigError(
    {
      asked: `${deviceVariable}=${text}`,
      found: 'no device of this name',
      todo: `Use one of ${deviceNames.join(', ')}`,
    },
    { name: text },
  );
}
