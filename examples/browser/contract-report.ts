import type { PageDevice } from 'shardwise/browser';
import type { ContractFinding } from './contract-finding.ts';

/** The findings about a device, as text to copy. */
export class ContractReport {
  readonly counts = { passed: 0, skipped: 0, failed: 0 };
  /** The number of tests. It is 0 until it is known. */
  tests = 0;
  #device = '';
  #adapter = '';
  readonly #failures: string[] = [];
  readonly #reasons = new Map<string, number>();
  readonly #measured: string[] = [];

  runsOn({ kind, reason }: PageDevice): void {
    this.#device = `${kind === 'webgpu' ? 'WebGPU' : 'WebAssembly'}: ${reason}`;
  }

  add(finding: ContractFinding): void {
    switch (finding.kind) {
      case 'begun':
        this.tests = finding.tests;
        this.#adapter = finding.adapter;
        break;
      case 'test': {
        const { status, name, reason } = finding;
        this.counts[status] += 1;
        if (status === 'failed') this.#failures.push(`- ${name}: ${reason}`);
        else if (status === 'skipped')
          this.#reasons.set(reason, (this.#reasons.get(reason) ?? 0) + 1);
        break;
      }
      case 'measured':
        this.#measured.push(`- ${finding.what}: ${finding.figure}`);
        break;
      default:
        finding satisfies never;
    }
  }

  toString(): string {
    const { passed, skipped, failed } = this.counts;
    const { userAgent, hardwareConcurrency } = navigator;
    return [
      `Browser: ${userAgent}`,
      `Processors: ${hardwareConcurrency}`,
      `Device: ${this.#device}`,
      ...(this.#adapter === '' ? [] : [`Adapter: ${this.#adapter}`]),
      `Tests: ${passed} passed, ${skipped} do not concern it, ${failed} failed, of ${this.tests}`,
      ...this.#failures,
      'Measured:',
      ...this.#measured,
      'Not concerned:',
      ...[...this.#reasons].map(([reason, count]) => `- ${count} tests: ${reason}`),
    ].join('\n');
  }
}
