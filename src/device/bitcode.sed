# Makes clang's bitcode, as text, fit for any kernel compiler to link.
#
# Module flags (nvvm-reflect-ftz, amdgpu_code_object_version, wchar_size) conflict with those of the kernel's module.
/^!llvm\.(module\.flags|ident)/d
# A function with the features of one GPU would not be inlined into a kernel for another, and one of clang's -O0 into no kernel.
# Which code is a function and which is inlined is the kernel compiler's decision, except for the slow paths.
/^attributes /{
  s/"(target-cpu|target-features|frame-pointer)"="[^"]*" ?//g
  / cold /!s/ noinline / /
}
