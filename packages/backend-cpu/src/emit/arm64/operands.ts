/** A general register of 64 bits. Number 31 is the stack pointer in addresses and in sums with a number. */
export interface ArmRegister {
  readonly kind: 'general';
  readonly index: number;
}

/** A vector register of 16 bytes. */
export interface ArmVector {
  readonly kind: 'vector';
  readonly index: number;
}

export const x = (index: number): ArmRegister => ({ kind: 'general', index });
export const v = (index: number): ArmVector => ({ kind: 'vector', index });
export const stack: ArmRegister = x(31);
