import type { Engine } from '../engine/engine.ts';
import { given } from './app-context.ts';

/** With which weights the last tokens of a response were made, in OpenAI's name. Nothing for weights without a version. */
export function fingerprintOf(engine: Engine): { readonly system_fingerprint?: string } {
  return given('system_fingerprint', engine.statistics.weightsVersion);
}
