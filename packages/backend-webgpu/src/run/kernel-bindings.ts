import type { GpuSession, Pipeline } from '../device/gpu-session.ts';
import { bindWindows, type Used } from './bind-windows.ts';
import type { Kernel } from '../emit/kernel.ts';
import { kernelText } from '../emit/kernel-text.ts';
import type { Values } from '../program/values.ts';

/** A kernel with the buffers that it uses. */
export interface BoundKernel {
  readonly pipeline: Pipeline;
  readonly bindings: GPUBindGroup;
  /** Where each value begins in the first of its bindings, in words. */
  readonly offsets: readonly number[];
}

export interface KernelBindingsOptions {
  readonly session: GpuSession;
  readonly values: Values;
  readonly kernel: Kernel;
  /** The value that guards the kernel. */
  readonly guard: number | undefined;
  /** The most bytes of one binding. */
  readonly bindingBytes: number;
}

interface Kept extends BoundKernel {
  readonly used: readonly Used[];
  readonly parameters: GPUBuffer;
}

/** For how many sets of buffers a kernel keeps its bindings. */
const MAX_KEPT = 8;

/**
 * The bindings of a kernel for the buffers that it used last. From one step to the next few buffers change, so that
 * most kernels of a program need no new bindings. A kernel's text is written once for each pattern of windows.
 */
export class KernelBindings {
  readonly #options: KernelBindingsOptions;
  readonly #texts = new Map<string, string>();
  #kept: readonly Kept[] = [];

  constructor(options: KernelBindingsOptions) {
    this.#options = options;
  }

  /** The bindings for these values. `parameters` is a uniform buffer, of which a dispatch sees `stride` bytes. */
  of(used: readonly Used[], parameters: GPUBuffer, stride: number): BoundKernel {
    const known = this.#kept.find(
      (kept) =>
        kept.parameters === parameters &&
        kept.used.every((each, position) => isSame(each, used[position])),
    );
    if (known !== undefined) return known;
    const made: Kept = { ...this.#bind(used, parameters, stride), used, parameters };
    this.#kept = [made, ...this.#kept.slice(0, MAX_KEPT - 1)];
    return made;
  }

  #bind(used: readonly Used[], parameters: GPUBuffer, stride: number): BoundKernel {
    const { session, values, kernel, guard, bindingBytes } = this.#options;
    const { bindings: buffers, windows, offsets } = bindWindows(used, bindingBytes);
    const pattern = windows.join(';');
    const text =
      this.#texts.get(pattern) ??
      kernelText(values, kernel, { windows, windowWords: bindingBytes / 4 }, guard);
    this.#texts.set(pattern, text);
    const pipeline = session.pipeline(text, buffers.length, kernel.label);
    const resources = [{ buffer: parameters, offset: 0, size: stride }, ...buffers];
    const bindings = session.bindGroup(resources, kernel.label);
    return { pipeline, bindings, offsets };
  }
}

function isSame(a: Used, b: Used | undefined): boolean {
  return (
    a.memory === b?.memory && a.byteOffset === b.byteOffset && a.from === b.from && a.to === b.to
  );
}
