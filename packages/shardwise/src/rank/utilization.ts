import { registerPeak } from '@shardwise/backend-cpu';
import {
  checkOptions,
  ConfigError,
  flopsOf,
  type GraphObserver,
  isHalfDType,
  type Node,
  observeGraph,
  option,
  type OptionRule,
  type OptionRules,
} from '@shardwise/core/extend';
import {
  devicePeaks,
  type PaperModel,
  paperThroughputs,
  type Peak,
  type PeakDevice,
  type Throughput,
} from './peaks.ts';

/** What the use of the devices is compared with. Give one of them, or both. */
export interface UtilizationOptions {
  /**
   * The peak of a rank's device, for model FLOPs utilization: 'measured' measures one core of this processor, as far
   * as it has machine code for it; the name of a device, such as 'A100'; or own figures in operations per second.
   */
  readonly peak?: 'measured' | PeakDevice | Peak;
  /** The speed of a rank that counts as 1: the name of a model whose paper says it, or a figure with its source. */
  readonly throughput?: PaperModel | Throughput;
}

const peakRule: OptionRule<Peak> = {
  fits: (value): value is Peak =>
    option.object<Partial<Peak>>().fits(value) &&
    option.positive.fits(value.f32) &&
    option.positive.fits(value.half),
  expected: '{ f32, half } in operations per second',
};
const throughputRule: OptionRule<Throughput> = {
  fits: (value): value is Throughput =>
    option.object<Partial<Throughput>>().fits(value) &&
    option.positive.fits(value.tokensPerSecond) &&
    option.nonEmptyText.fits(value.source),
  expected: '{ tokensPerSecond, source }',
};
const rules: OptionRules<UtilizationOptions> = {
  peak: option.either(
    option.oneOf<'measured' | PeakDevice>('measured', 'V100', 'A100', 'H100', 'H200'),
    peakRule,
  ),
  throughput: option.either(
    option.oneOf<PaperModel>('llama-7b', 'llama-13b', 'llama-33b', 'llama-65b'),
    throughputRule,
  ),
};

/** What a rank has computed, in seconds of its device at its peak. */
interface PeakSeconds {
  readonly model: number;
  readonly hardware: number;
}

/**
 * Says how well a rank uses its device, in each step:
 *
 * - `utilization/MFU`: the operations of products in forward and backward passes over those that the peak allows in
 *   the time of the step (Chowdhery et al. 2022, PaLM). Products of f32 and of 16 bits each count by their own peak.
 * - `utilization/HFU`: the same with what backward passes compute again.
 * - `utilization/throughput`: tokens per second over those of a paper.
 */
export class Utilization implements GraphObserver {
  readonly #peak: Peak | null;
  readonly #throughput: Throughput | null;
  readonly #end: () => void;
  readonly #remade = new WeakSet<Node>();
  #seconds = { model: 0, hardware: 0 };
  #startMs = performance.now();

  constructor(peak: Peak | null, throughput: Throughput | null) {
    this.#peak = peak;
    this.#throughput = throughput;
    this.#end = peak === null ? () => {} : observeGraph(this);
  }

  /** Where the figures come from, for the report of the run. */
  get facts(): Readonly<Record<string, string>> {
    const [peak, throughput] = [this.#peak, this.#throughput];
    return {
      ...(peak !== null && {
        'peak of a rank': `${tera(peak.f32)} (f32), ${tera(peak.half)} (16 bits)`,
        MFU: 'products of forward and backward passes as PyTorch counts them, over peak and time of step',
      }),
      ...(throughput !== null && {
        'throughput of comparison': `${throughput.tokensPerSecond.toFixed(0)} tokens/s a rank: ${throughput.source}`,
      }),
    };
  }

  /** The figures since the last call. `tokens` are those of this rank. */
  take(tokens: number | undefined): Readonly<Record<string, number>> {
    const now = performance.now();
    const seconds = (now - this.#startMs) / 1000;
    const { model, hardware }: PeakSeconds = this.#seconds;
    this.#startMs = now;
    this.#seconds = { model: 0, hardware: 0 };
    const throughput = this.#throughput;
    return {
      ...(this.#peak !== null && {
        'utilization/MFU': model / seconds,
        'utilization/HFU': hardware / seconds,
      }),
      ...(throughput !== null &&
        tokens !== undefined && {
          'utilization/throughput': tokens / seconds / throughput.tokensPerSecond,
        }),
    };
  }

  close(): void {
    this.#end();
  }

  gradient(): void {}
  backward(): void {}
  update(): void {}
  pool(): void {}

  remade(_node: Node, copy: Node): void {
    this.#remade.add(copy);
  }

  run(nodes: readonly Node[]): void {
    const peak = this.#peak;
    if (peak === null) return;
    for (const node of nodes) {
      const flops = flopsOf(node);
      if (flops === 0) continue;
      const seconds = flops / (isHalfDType(node.inputs[0]?.dtype ?? 'f32') ? peak.half : peak.f32);
      this.#seconds.hardware += seconds;
      if (!this.#remade.has(node)) this.#seconds.model += seconds;
    }
  }
}

/** Throws ConfigError for options that are wrong, and if the peak is to be measured and cannot be. */
export async function createUtilization(
  options: UtilizationOptions | undefined,
): Promise<Utilization | null> {
  if (options === undefined) return null;
  checkOptions('init with utilization', options, rules);
  const { peak, throughput } = options;
  if (peak === undefined && throughput === undefined) {
    throw new ConfigError({
      asked: 'init with utilization',
      found: 'neither a peak nor a throughput',
      todo: "Give peak: 'measured', or the name of a device; or a throughput",
    });
  }
  return new Utilization(
    peak === undefined ? null : await peakOf(peak),
    typeof throughput === 'string' ? paperThroughputs[throughput] : (throughput ?? null),
  );
}

async function peakOf(peak: NonNullable<UtilizationOptions['peak']>): Promise<Peak> {
  if (typeof peak === 'object') return peak;
  if (peak !== 'measured') return devicePeaks[peak];
  const [f32, half] = [await registerPeak('f32'), await registerPeak('bf16')];
  if (f32 !== undefined && half !== undefined) {
    return { f32: f32.gigaflops * 1e9, half: half.gigaflops * 1e9 };
  }
  throw new ConfigError({
    asked: "init with utilization: { peak: 'measured' }",
    found:
      'a processor whose peak is not measured here, or a system that does not run machine code',
    todo: 'Give { f32, half } in operations per second',
  });
}

function tera(flops: number): string {
  return `${(flops / 1e12).toPrecision(3)} TFLOP/s`;
}
