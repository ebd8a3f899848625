import { currentSession, type Module, type Tensor } from '@shardwise/core/extend';
import { profiler } from 'shardwise';
import type { ProfilerSection, Settings } from './settings.ts';

/** The milliseconds of the parts of an update. */
export interface PartTimes {
  readonly forward: number;
  readonly backward: number;
  readonly step: number;
}

/**
 * What is measured of one update, for wall_clock_breakdown and flops_profiler. Each part of it is computed by itself, so it
 * takes longer than other updates, and its numbers are the same.
 */
export class Measurement {
  readonly #profiler: profiler.FlopsProfiler | undefined;
  readonly #printsProfile: boolean;
  #forward = 0;
  #backward = 0;

  /** Returns the measurement of the update after `globalSteps` others, or undefined if nothing is measured of it. */
  static of(module: Module, settings: Settings, globalSteps: number): Measurement | undefined {
    const { flops_profiler: section, wall_clock_breakdown: takesTimes } = settings;
    const isProfiled = section.enabled && section.profile_step === globalSteps;
    const isTimed = takesTimes && (globalSteps + 1) % (settings.steps_per_print ?? 1) === 0;
    if (!isProfiled && !isTimed) return undefined;
    return new Measurement(section, isProfiled ? module : undefined);
  }

  private constructor(section: ProfilerSection, profiled: Module | undefined) {
    const { output_file: path } = section;
    const outputFile = path === null || path === '' ? undefined : path;
    this.#printsProfile = outputFile === undefined;
    if (profiled === undefined) return;
    this.#profiler = profiler.flopsProfiler(profiled, {
      moduleDepth: section.module_depth,
      topModules: section.top_modules,
      detailed: section.detailed,
      ...(outputFile !== undefined && { outputFile }),
    });
  }

  /**
   * Call it before the forward pass that is profiled, which is the last one of the update. Throws ConfigError if
   * output_file cannot be written.
   */
  beginProfile(): void {
    this.#profiler?.startProfile();
  }

  /** Computes the loss, and then the gradients that `differentiate` builds. Shape: loss []. */
  async pass(loss: Tensor, isLast: boolean, differentiate: () => void): Promise<void> {
    const start = performance.now();
    if (isLast) await this.#profiler?.measureForward(loss.retain());
    await currentSession().realize([loss.retain().node]);
    const middle = performance.now();
    differentiate();
    if (isLast) await this.#profiler?.measureBackward();
    await currentSession().realize([]);
    this.#forward += middle - start;
    this.#backward += performance.now() - middle;
  }

  /**
   * Runs the update, and returns the times of its parts. The profile is written to output_file, or printed on the rank that
   * prints.
   */
  async update(run: () => Promise<void>, prints: boolean): Promise<PartTimes> {
    const start = performance.now();
    await run();
    const step = performance.now() - start;
    const profile = this.#profiler?.stopProfile();
    if (profile !== undefined && prints && this.#printsProfile) console.log(profile.toString());
    return { forward: this.#forward, backward: this.#backward, step };
  }
}

/** The times of an update, as DeepSpeed prints them. */
export function timesLine({ forward, backward, step }: PartTimes): string {
  const parts = { fwd: forward, bwd: backward, step };
  const texts = Object.entries(parts).map(([name, ms]) => `${name}: ${ms.toFixed(2)}`);
  return `time (ms) | ${texts.join(' | ')}`;
}
