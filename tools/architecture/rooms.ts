export const rooms: Readonly<Record<string, Readonly<Record<string, string>>>> = {};
