import type { LaneDType } from './loop-spec.ts';

/** The integer that a lane holds for a number, which has no more digits than the dtype. */
export function constantBits(dtype: Exclude<LaneDType, 'f32'>, value: number): number {
  switch (dtype) {
    case 'i32':
      return value;
    case 'bool':
      return value === 0 ? 0 : -1;
    case 'u8':
      return value & 0xff;
    case 'f16': {
      const view = new DataView(new ArrayBuffer(2));
      view.setFloat16(0, value, true);
      return view.getUint16(0, true);
    }
    case 'bf16':
      return bfloat16Bits(value);
    default:
      return dtype satisfies never;
  }
}

/** The bits of the nearest bf16, ties to even. */
function bfloat16Bits(value: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, value, true);
  const bits = view.getUint32(0, true);
  if (Number.isNaN(value)) return (bits >>> 16) | 0x40;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}
