import { chooseDevice, ShardwiseError } from 'shardwise/browser';
import { onMounted, ref, shallowRef, type Ref, type VNode } from 'vue';
import { choice } from '../explorers/controls.ts';

/** A device, as startRanks takes it. */
export type DeviceName = 'auto' | 'wasm' | 'webgpu';

const names: readonly DeviceName[] = ['auto', 'wasm', 'webgpu'];

export interface DeviceChoice {
  readonly device: Ref<DeviceName>;
  readonly control: () => VNode;
}

/** Lets the reader choose the device of the page's ranks. If the browser has no WebGPU, the choice says why. */
export function useDeviceChoice(): DeviceChoice {
  const device = ref<DeviceName>('auto');
  const missing = shallowRef<ReadonlyMap<DeviceName, string>>(new Map());
  onMounted(async () => {
    try {
      await chooseDevice('webgpu', 1);
    } catch (error) {
      missing.value = new Map([['webgpu', reasonOf(error)]]);
    }
  });
  return { device, control: () => choice('Device', device, names, missing.value) };
}

function reasonOf(error: unknown): string {
  if (ShardwiseError.isInstance(error) && typeof error.fields['reason'] === 'string') {
    return error.fields['reason'];
  }
  return String(error);
}
