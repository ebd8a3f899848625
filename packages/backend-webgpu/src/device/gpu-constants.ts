/** What WebGPU calls GPUBufferUsage and GPUMapMode, which Node does not define. */
export const bufferUsage = {
  mapRead: 0x1,
  copySource: 0x4,
  copyDestination: 0x8,
  uniform: 0x40,
  storage: 0x80,
  queryResolve: 0x200,
} as const;

export const mapModeRead = 0x1;

/** Where bindings of storage may begin on every device. */
export const bindingAlignmentBytes = 256;
